"""Running firings, and writing what they came to.

finish.py  the end of a run: products, last seen values and completion in one transaction
           (R10)
run.py     started once, whatever happens, with the values of its check
sql/       the statements that they send, one a file
"""
