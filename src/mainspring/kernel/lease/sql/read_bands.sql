-- What some bands contain. Locks nothing; rides the primary key. A band never changes, so it is read once.
select name, queues from mainspring.band where name = any(%(names)s::text[])
