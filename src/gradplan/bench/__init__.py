"""The speed board: what is measured (board.py), against whom (peers.py), how (measure.py), and how
it is shown (tables.py, page.py); what disturbs it (contention.py). `gradplan bench` runs it."""
