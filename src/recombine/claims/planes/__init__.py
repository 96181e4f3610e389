"""The claims of the forced-rendering study, read from what was judged and measured over whole planes."""
