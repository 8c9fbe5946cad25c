"""Reads the payouts for Itaú, which a test of the admin command wrote, with pycnab240, and compares the sums.

Usage: payout_file.py FILE
"""

import sys
from decimal import Decimal

from pycnab240.bancos import itau
from pycnab240.file import File


# The library's segment B has an address, with two numbers. That of a Pix is blank there.
for field in itau.records.SegmentoB._fields_cls.values():
    field.ignore = field.name in ("favorecido_endereco_numero", "favorecido_cep")


def main(path):
    file = File(itau)
    with open(path, encoding="ascii", newline="\r\n") as lines:
        file.load_return_file(lines)
    (batch,) = file.lots
    assert (file.header.numero_versao_layout, batch.header.numero_versao_lote) == (81, 40)
    assert (batch.header.tipo_operacao, batch.header.tipo_pagamento, batch.header.forma_lancamento) == ("C", 20, 45)
    account = (1234, 56789, 0, 2, 11444777000161, "PAGAMENTOS SAO JOSE S.A.")
    for header in (file.header, batch.header):
        holder = (header.cedente_inscricao_tipo, header.cedente_inscricao_numero, header.cedente_nome)
        assert (header.cedente_agencia, header.cedente_conta, header.dac) + holder == account
    (payout,) = batch.events
    transfer, to = payout.segments
    assert (transfer.codigo_camara_compensacao, transfer.vazio1) == (9, 400_000)
    assert (transfer.valor_pagamento, transfer.tipo_moeda) == (Decimal("60.00"), "REA")
    assert transfer.data_pagamento == file.header.data_geracao_arquivo
    assert transfer.numero_inscricao == to.favorecido_inscricao_numero == 11222333000181
    assert (to.vazio1, to.favorecido_inscricao_tipo, to.endereco_email) == ("02", 2, "financeiro@loja.example")
    assert transfer.sequencial_registro_lote == to.sequencial_registro_lote == 1
    end = batch.trailer
    assert (end.quantidade_registros, end.somatorio_valores) == (4, transfer.valor_pagamento)
    assert (file.trailer.totais_quantidade_lotes, file.trailer.totais_quantidade_registros) == (1, 6)
    print(f"pycnab240 reads {transfer.numero_documento_cliente}: R$ {transfer.valor_pagamento}")


main(sys.argv[1])
