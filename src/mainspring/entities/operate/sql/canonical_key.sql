-- The one text of an id, and the entity as it is now (null if it is not there, or has a dao).
select c.key, mainspring.entity(%(kind)s::text, c.key)::text as entity
from mainspring.canonical_keys(%(kind)s::text, array[%(id)s::text]) c
