-- The engine's time: the transaction's start. The test kit replaces the body so that every process sees a moved clock.
-- Plain SQL and stable: it is inlined, so conditions on it ride indexes.
create or replace function mainspring.now() returns timestamptz
  language sql stable parallel safe
  as 'select pg_catalog.now()';
