"""The speed board: what is measured (board.py), against whom (peers.py), how (measure.py), and how
it is shown (table.py, page.py). `gradplan bench` runs it."""
