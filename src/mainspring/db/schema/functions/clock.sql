-- The moment itself, where the transaction's start is too old.
create or replace function mainspring.clock() returns timestamptz
  language sql volatile parallel safe
  as 'select pg_catalog.clock_timestamp()';
