"""Every table and figure of the papers: what they say, what was found here.

    python -m benchmarks.papers list [--json]     a line a row: shown, or what it needs
    python -m benchmarks.papers run table-3       measure rows, in resumable pieces
    python -m benchmarks.papers page              docs/reproducing.md, from what is kept

rows.toml     the rows: what the paper says, and what decides whether that holds
register.py   the rows, each with the function that measures it
lab.py        where and how runs of rows are made, shared between rows
many.py       the runs of several rows in several processes, which share a GPU
results.py    what was found, as JSON with its provenance, in results/
kept/         numbers of long runs, so that a row can be measured in parts
commit.txt    the commit, in an archive that git made
page.py       docs/reproducing.md and its check, which the documentation's build runs
"""
