-- The one text of each id, through the types of the kind's key. In the order given.
select key from mainspring.canonical_keys(%(kind)s::text, %(ids)s::text[]) order by n
