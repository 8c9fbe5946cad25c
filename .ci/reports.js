// Reads the statement that `.ci/reports.py` made by the npm library ofx-js.

const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");

const work = path.resolve(process.argv[2]);
const { parse } = createRequire(path.join(work, "x.js"))("ofx-js");
const expected = JSON.parse(fs.readFileSync(path.join(work, "expected.json"), "utf8"));

parse(fs.readFileSync(path.join(work, "statement.ofx"), "latin1")).then(({ OFX }) => {
  const statement = OFX.BANKMSGSRSV1.STMTTRNRS.STMTRS;
  const movements = statement.BANKTRANLIST.STMTTRN;
  const cents = (text) => Math.round(Number(text) * 100);
  const sum = movements.reduce((all, one) => all + cents(one.TRNAMT), 0);
  const found = [movements.length, sum, cents(statement.LEDGERBAL.BALAMT)].join(" ");
  const wanted = [expected.movements, cents(expected.balance), cents(expected.balance)].join(" ");
  if (found !== wanted) {
    console.error(`FAILED: ofx-js: ${found}, expected: ${wanted}`);
    process.exit(1);
  }
  console.log(`ofx-js: ${movements.length} movements`);
});
