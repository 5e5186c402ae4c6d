-- What must never be of a page of visits (after a key, up to another; null: no bound), at most so much. Rides the primary key.
select rule, detail from mainspring.visit_violations(%(after)s::text, %(upto)s::text) limit %(most)s::integer
