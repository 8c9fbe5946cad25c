//! Invoices: creation, reading and marking by hand, and what the payer and the chain do.

use bech32::{hrp, segwit};
use serde_json::{Value, json};

use super::invoice::{Additional, Invoice, Payment, Status};
use super::{ON_CHAIN, Result, State};
use crate::decimal::{self, SATOSHIS};
use crate::error::ApiError;
use crate::requests::{Control, CreateInvoice, UpdateInvoice, read};

impl State {
    pub(crate) fn create_invoice(&mut self, body: &Value) -> Result<Value> {
        let request: CreateInvoice = read(body)?;
        let currency = request.currency.filter(|currency| !currency.is_empty());
        let currency = currency.as_ref().unwrap_or(&self.behaviour.default_currency).to_uppercase();
        let amount = request.amount.and_then(|text| decimal::parse(&text, decimal::places(&currency)));
        let Some(amount) = amount.filter(|amount| *amount >= 0) else {
            let message = "The amount should be a text with a decimal number of 0 or more. The stand-in has no top-up invoices.";
            return Err(ApiError::invalid("amount", message));
        };
        let checkout = request.checkout.unwrap_or_default().complete()?;
        let Some(rate) = self.behaviour.rate(&currency) else {
            let message = format!(
                "Error retrieving a matching payment method or rate.\n{ON_CHAIN}: No rate for BTC_{currency}.\n"
            );
            return Err(ApiError::new(400, "generic-error", message));
        };
        let after = |time_ms: i64, minutes: Option<u32>| {
            time_ms.saturating_add(i64::from(minutes.unwrap_or_default()).saturating_mul(60_000))
        };
        let expires_ms = after(self.now_ms, checkout.expiration_minutes);
        let (serial, id) = (self.next_serial(), self.new_id("invoice"));
        // A valid address of Bitcoin's network for tests (regtest), of which no key is known.
        let hash = self.hash(&format!("address {id}"));
        let program = hash.get(..20).unwrap_or_default();
        let invoice = Invoice {
            id: id.clone(),
            serial,
            amount,
            rate,
            destination: segwit::encode_v0(hrp::BCRT, program).unwrap_or_default(),
            metadata: request.metadata,
            receipt: request.receipt.unwrap_or_default(),
            search_terms: request.additional_search_terms.unwrap_or_default(),
            created_ms: self.now_ms,
            expires_ms,
            monitored_until_ms: after(expires_ms, checkout.monitoring_minutes),
            checkout,
            status: Status::New,
            additional: Additional::None,
            payments: Vec::new(),
            currency,
        };
        self.timers.extend(invoice.timers());
        self.invoices.insert(id.clone(), invoice);
        self.emit(&id, json!({"type": "InvoiceCreated"}));
        // An invoice of 0 is paid.
        self.watch(&id);
        self.shown_invoice(&id)
    }

    pub(crate) fn invoice(&self, id: &str) -> Result<&Invoice> {
        self.invoices.get(id).ok_or_else(|| ApiError::not_found("invoice"))
    }

    pub(crate) fn newest_first(&self) -> Vec<&Invoice> {
        let mut invoices: Vec<&Invoice> = self.invoices.values().collect();
        invoices.sort_by_key(|invoice| std::cmp::Reverse(invoice.serial));
        invoices
    }

    /// Returns an invoice as the API shows it.
    pub(crate) fn shown(&self, invoice: &Invoice, with_methods: bool) -> Value {
        let decimals = decimal::places(&invoice.currency);
        let seconds = |time_ms: i64| time_ms.div_euclid(1_000);
        let paid = decimal::divide(invoice.paid(), invoice.rate, SATOSHIS, SATOSHIS / 2);
        let mut shown = json!({
            "id": invoice.id, "storeId": self.store_id, "currency": invoice.currency,
            "amount": decimal::text(invoice.amount, decimals), "type": "Standard",
            "paidAmount": decimal::text(paid, decimals),
            "checkoutLink": format!("{}/i/{}", self.origin, invoice.id),
            "createdTime": seconds(invoice.created_ms), "expirationTime": seconds(invoice.expires_ms),
            "monitoringExpiration": seconds(invoice.monitored_until_ms),
            "status": invoice.status, "additionalStatus": invoice.additional,
            "availableStatusesForManualMarking": invoice.marks(), "archived": false,
            "metadata": invoice.metadata, "checkout": invoice.checkout, "receipt": invoice.receipt,
        });
        if with_methods {
            insert(&mut shown, "paymentMethods", invoice.shown_methods(true));
        }
        shown
    }

    /// Returns an invoice as the API shows it, with all its payments. Those that came after the end of monitoring are in
    /// `unseen`.
    pub(super) fn book(&self, invoice: &Invoice) -> Value {
        let mut book = self.shown(invoice, false);
        let unseen = invoice.payments.iter().filter(|payment| payment.is_unseen);
        let unseen: Vec<Value> = unseen.map(|payment| invoice.shown_payment(payment)).collect();
        insert(&mut book, "paymentMethods", invoice.shown_methods(false));
        insert(&mut book, "unseen", unseen.into());
        book
    }

    pub(super) fn invoice_mut(&mut self, id: &str) -> Result<&mut Invoice> {
        self.invoices.get_mut(id).ok_or_else(|| ApiError::not_found("invoice"))
    }

    pub(crate) fn update_invoice(&mut self, id: &str, body: &Value) -> Result<Value> {
        self.invoice_mut(id)?.metadata = read::<UpdateInvoice>(body)?.metadata;
        self.shown_invoice(id)
    }

    /// Marks an invoice by hand.
    pub(crate) fn mark_invoice(&mut self, id: &str, status: Status) -> Result<Value> {
        let Some(event) = self.invoice_mut(id)?.mark(status) else {
            let message = "Status can only be marked to invalid or settled within certain conditions.";
            return Err(ApiError::invalid("status", message));
        };
        self.emit(id, event);
        self.shown_invoice(id)
    }

    pub(crate) fn shown_invoice(&self, id: &str) -> Result<Value> {
        Ok(self.shown(self.invoice(id)?, false))
    }

    /// Changes the status of an invoice by its payments and the time, and emits the events.
    pub(super) fn watch(&mut self, id: &str) {
        let now_ms = self.now_ms;
        let events = self.invoices.get_mut(id).map(|invoice| invoice.watch(now_ms)).unwrap_or_default();
        for event in events {
            self.emit(id, event);
        }
    }

    /// Returns the id of the newest invoice that a control request names by `invoice` or `order_id`.
    pub(crate) fn named_invoice(&self, request: &Control) -> Result<String> {
        let is_named = |invoice: &&Invoice| match &request.order_id {
            Some(order_id) => invoice.order_id() == Some(order_id),
            None => request.invoice.as_ref() == Some(&invoice.id),
        };
        let newest = self.invoices.values().filter(is_named).max_by_key(|invoice| invoice.serial);
        Ok(newest.ok_or_else(|| ApiError::not_found("invoice"))?.id.clone())
    }

    /// Pays an amount of BTC to the invoice's address. Without amount: what is due.
    pub(crate) fn pay(&mut self, id: &str, amount: Option<&str>, is_confirmed: bool) -> Result<Value> {
        let invoice = self.invoice(id)?;
        let satoshis = match amount {
            None => invoice.total().saturating_sub(invoice.paid()),
            Some(text) => decimal::parse(text, decimal::BTC).unwrap_or_default(),
        };
        if satoshis < 1 {
            let message = "`amount` must be a text with more than 0 BTC, such as \"0.001\". Without it, something must be due.";
            return Err(ApiError::invalid("amount", message));
        }
        let serial = self.next_serial();
        let paid = Payment {
            id: format!("{}-0", hex::encode(self.hash(&format!("transaction {serial}")))),
            received_ms: self.now_ms,
            satoshis,
            // Enough for every speed policy.
            confirmations: if is_confirmed { 6 } else { 0 },
            is_replaced: false,
            is_unseen: self.is_unwatched(id)?,
        };
        self.invoice_mut(id)?.payments.push(paid.clone());
        if !paid.is_unseen {
            self.emit_payment(id, "InvoiceReceivedPayment", &paid)?;
            if self.invoice(id)?.is_settled(&paid) {
                self.emit_payment(id, "InvoicePaymentSettled", &paid)?;
            }
            self.watch(id);
        }
        Ok(self.book(self.invoice(id)?))
    }

    /// True if the server does not look at the invoice's address any more.
    fn is_unwatched(&self, id: &str) -> Result<bool> {
        Ok(self.invoice(id)?.monitored_until_ms <= self.now_ms)
    }

    fn emit_payment(&mut self, id: &str, kind: &str, payment: &Payment) -> Result<()> {
        let invoice = self.invoice(id)?;
        let is_after = self.behaviour.reports_after_expiration
            && matches!(invoice.status, Status::Expired | Status::Invalid);
        let event = json!({
            "type": kind, "afterExpiration": is_after, "paymentMethodId": ON_CHAIN,
            "payment": invoice.shown_payment(payment),
        });
        self.emit(id, event);
        Ok(())
    }

    /// Adds blocks after all payments of an invoice.
    pub(crate) fn confirm(&mut self, id: &str, count: u32) -> Result<Value> {
        let mut settled = Vec::new();
        if !self.is_unwatched(id)? {
            let invoice = self.invoice_mut(id)?;
            let before = invoice.clone();
            for payment in invoice.payments.iter_mut().filter(|payment| !payment.is_replaced) {
                let was_settled = before.is_settled(payment);
                payment.confirmations = payment.confirmations.saturating_add(count);
                settled.extend((!was_settled && before.is_settled(payment)).then(|| payment.clone()));
            }
        }
        for payment in settled {
            self.emit_payment(id, "InvoicePaymentSettled", &payment)?;
        }
        self.watch(id);
        Ok(self.book(self.invoice(id)?))
    }

    /// Replaces the unconfirmed payments of an invoice by transactions that pay to another address (RBF).
    pub(crate) fn replace(&mut self, id: &str) -> Result<Value> {
        let is_unwatched = self.is_unwatched(id)?;
        let payments = &mut self.invoice_mut(id)?.payments;
        let is_unconfirmed = |payment: &Payment| payment.confirmations == 0 && !payment.is_replaced;
        if is_unwatched || !payments.iter().any(is_unconfirmed) {
            let message = "The invoice has no unconfirmed payment, or its monitoring ended.";
            return Err(ApiError::new(400, "nothing-to-replace", message));
        }
        let unconfirmed = payments.iter_mut().filter(|payment| is_unconfirmed(payment));
        unconfirmed.for_each(|payment| payment.is_replaced = true);
        self.watch(id);
        Ok(self.book(self.invoice(id)?))
    }
}

/// Adds a field to an object.
pub(super) fn insert(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}
