-- Tell one consumer what these entities are now (see the function). Locks the entities in order, for others to read.
select mainspring.resend_entities(%(kind)s::text, %(keys)s::text[], %(consumer)s::text) as told
