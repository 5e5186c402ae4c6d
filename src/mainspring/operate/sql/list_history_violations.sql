-- What must never be of history, of one day or (null) of all, at most so much. Reads every run of it.
select rule, detail from mainspring.history_violations(%(day)s::date) limit %(most)s::integer
