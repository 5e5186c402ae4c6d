-- What must never be, of everything but visits and history (the view mainspring.other_violation), at most so much of it.
select rule, detail from mainspring.other_violation limit %(most)s::integer
