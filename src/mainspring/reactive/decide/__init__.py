"""Deciding: from values to a verdict, a firing, a reason. Pure.

decide.py    the decision of a check: fire, or wait for what; what a rewind means to a task
evaluate.py  the verdict on a trigger: pure, exact, every leaf looked at (no short cut, R10);
             values and verdicts in words
explain.py   why a reactive task runs or does not: the tree with values, verdicts, since and
             until (R17)
lint.py      static checks of reactive tasks: what can be known to go wrong before anything
             runs
needs.py     what would turn a false trigger true: the next fact, or the shortest list of
             facts (R17)
"""
