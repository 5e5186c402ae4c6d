-- One at a time: who pulls tasks of an actor that has limits. What is out is counted by a later statement, which sees what
-- the one before has pulled. Locks the actor's row.
select from mainspring.queue q
where q.name = %(queue)s::text
for no key update
