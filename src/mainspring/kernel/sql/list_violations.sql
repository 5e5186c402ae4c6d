-- What must never be (the view mainspring.violation), at most so much of it.
select rule, detail from mainspring.violation limit %(most)s::integer
