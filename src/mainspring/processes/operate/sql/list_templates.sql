-- The operators' filters, or the one of a name.
select name, kind, filter::text, created_by, created_at, terms::text
from mainspring.template
where %(name)s::text is null or name = %(name)s::text
order by name
