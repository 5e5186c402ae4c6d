-- Our triggers of a kind, on whatever table they are (it may have had another), without the copies that PostgreSQL makes of
-- row triggers. Arguments are bytes, each ended by a zero. The names of another kind's may begin alike: see `own` in capture.py.
select t.tgrelid::bigint as oid, quote_ident(n.nspname) || '.' || quote_ident(c.relname) as table_name, t.tgname as name,
  p.proname as function, t.tgenabled::text as enabled,
  t.tgargs as arguments
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
join pg_namespace n on n.oid = c.relnamespace
join pg_proc p on p.oid = t.tgfoid
join pg_namespace pn on pn.oid = p.pronamespace and pn.nspname = 'mainspring'
where t.tgparentid = 0 and not t.tgisinternal and starts_with(t.tgname, %(prefix)s::text)
order by t.tgrelid, t.tgname
