-- Announce changes of entities, in the caller's transaction. Answers how many visits were offered.
select mainspring.changed(%(kind)s::text, %(ids)s::text[], %(fields)s::text[]) as count
