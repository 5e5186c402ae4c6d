-- Looks at one lock follow each other. The lock of this name, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('mainspring.process_lock ' || %(name)s::text, 0))
