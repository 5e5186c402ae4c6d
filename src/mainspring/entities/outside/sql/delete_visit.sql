-- Take an entity out of a stage's queue (see the function).
select mainspring.delete_visit(%(kind)s::text, %(id)s::text, %(stage)s::text, %(crawl)s::boolean, %(force)s::boolean)
