"""Beyond the papers: what studies found that no paper claims, as short entries B1 to B13 in RESULTS.md.

`entries` says what a question, a comparison and an entry are, `numbers` what is compared and how it is told. The
questions themselves are in `told` (B1, B3), `data` (B2, B4), `values` (B5), `tokens` (B6), `jepa` (B7), `bridge` (B8),
`loud` (B9), `jepa_published` (B10), `withheld` (B11), `categories` (B12) and `which` (B13); `questions` asks them all,
`sections` and `figures` write them. What is compared was fixed here before the runs, but for B11 and B12.
"""
