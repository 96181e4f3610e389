"""What the papers claim, as code: each claim a function from the tables of finished studies to a verdict.

`verdicts` says what a claim and a verdict are, `tables` what is read from a study, `lookup` which studies and arms a
claim looks at. The claims themselves are in `ladder` (C1), `tokenizer` (C2), `conditioning` (C3), `jepa` (C4, C5),
`untested` (C6 to C12) and `rendering` (F1 to F9); `ledger` asks them all, `page` and `figures` write RESULTS.md,
`quality` its section on how good the pictures are.
`why` has the explanations E1 to E3, `beyond` what studies found that no paper claims (B1 to B13).
"""
