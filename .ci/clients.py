"""Makes calls with the client that openapi-python-client generated. Each answer must be read as its type."""

import json
import os
import time

from payments import AuthenticatedClient
from payments.api.charges import create_pix_charge, get_charge, get_charge_timeline, list_charges
from payments.api.deliveries import get_delivery_stats, list_deliveries
from payments.api.events import list_events
from payments.api.payments import create_payment, get_payment, get_provider_status
from payments.api.refunds import create_refund
from payments.api.sandbox import pay_test_charge
from payments.api.webhook_endpoints import create_webhook_endpoint, list_event_types
from payments.models import (
    ChargePaidEvent,
    CreatePaymentBody,
    CreatePaymentBodyPaymentMethodsItem as Method,
    CreatePixChargeBody,
    CreatePixChargeBodyCustomerType0 as Customer,
    CreateRefundBody,
    CreateWebhookEndpointBody,
    CreateWebhookEndpointBodyEventsItem as EventName,
    ListChargesStatus,
    PayTestChargeBody,
)

READY = json.load(open(os.environ["READY_FILE"]))
CLIENT = AuthenticatedClient(READY["base_url"], READY["test_api_key"], prefix="", auth_header_name="apikey")
CALLS = 0


def call(operation, *arguments, **more):
    """Calls an operation, and returns the body of its answer, which must be a success."""
    global CALLS
    answer = operation.sync_detailed(*arguments, client=CLIENT, **more)
    assert answer.status_code < 300, answer
    assert answer.parsed is not None, answer
    CALLS += 1
    return answer.parsed


def main():
    endpoint = CreateWebhookEndpointBody(url="https://shop.example.com/hook", events=[EventName.CHARGE_PAID])
    assert call(create_webhook_endpoint, body=endpoint).status == "ACTIVE"
    assert any(entry.legacy for entry in call(list_event_types))
    body = CreatePixChargeBody(amount=1990, customer=Customer(name="Ana", document="529.982.247-25"))
    charge = call(create_pix_charge, body=body, idempotency_key="client-0001")
    assert (charge.status, charge.payment_method, charge.customer.document) == ("pending", "pix", "52998224725")
    call(pay_test_charge, charge.id, body=PayTestChargeBody())
    assert call(get_charge, charge.id).status == "paid"
    assert call(list_charges, status=ListChargesStatus.PAID).data[0].id == charge.id
    assert call(get_provider_status, charge.id).provider == "sandbox"
    refund = call(create_refund, charge.id, body=CreateRefundBody(idempotency_key="client-0002", amount=500))
    assert refund.amount == 500
    of_card = CreatePaymentBody(amount=990, payment_methods=[Method.CREDIT_CARD], idempotency_key="client-0003")
    payment = call(create_payment, body=of_card)
    assert call(get_payment, payment.id).payment_methods == ["CREDIT_CARD"]
    events = []
    for _ in range(100):
        events = [event for event in call(list_events).data if isinstance(event, ChargePaidEvent)]
        if events:
            break
        time.sleep(0.1)
    assert events[0].data.object_.id == charge.id
    assert call(get_charge_timeline, charge.id).data[0].type_ == "status"
    assert call(list_deliveries).complete is True
    assert call(get_delivery_stats).delivered == 0
    print(f"Python: {CALLS} calls")


main()
