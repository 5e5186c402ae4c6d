-- Announce deletes of entities, in the caller's transaction: ends their visits and states, tells the consumers.
-- Answers how many entities had any.
select mainspring.deleted(%(kind)s::text, %(ids)s::text[]) as count
