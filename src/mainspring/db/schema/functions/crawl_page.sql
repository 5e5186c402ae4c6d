-- The keys of a kind's entities after one, in the order of the key's own index and as canonical text: a page of a crawl (S18).
-- after: the last key of the page before, null at the start. Keyset, never offset; the order is that of the key's type, so no row
-- that stays where it is can be skipped. Rows that come behind the position were offered when they came. Keys that no visit can have
-- (empty, over 1300 bytes) are left out, as the triggers leave them out (offer_visits.sql): one of them would stop the crawl.
create or replace function mainspring.crawl_page(kind text, after text, most integer) returns table (key text)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres'
  set bytea_output = 'hex'
  set extra_float_digits = 1
  set enable_seqscan = off
  as $$
declare
  found_kind mainspring.kind;
  source regclass;
  columns text;
  printed text;
  position text;
begin
  select * into found_kind from mainspring.kind k where k.name = crawl_page.kind;
  if not found then
    raise exception 'unknown kind %', quote_literal(kind) using
      errcode = 'undefined_object', hint = 'kinds are registered by a worker or by "mainspring migrate module:app"';
  end if;
  if found_kind.source = 'dao' then
    raise exception 'kind % has a dao: its keys are not known here', quote_literal(kind) using errcode = 'feature_not_supported';
  end if;
  if found_kind.source = 'document' then
    return query
      select d.key from mainspring.document d
      where d.kind = crawl_page.kind and (after is null or d.key > after) order by d.key limit most;
    return;
  end if;
  source := to_regclass(found_kind.source);
  if source is null then
    raise exception 'the table % of kind % is gone', found_kind.source, quote_literal(kind) using errcode = 'undefined_table';
  end if;
  select string_agg(format('t.%I', k.name), ', ' order by k.n),
    mainspring.key_expression(source, found_kind.keys, 't'),
    case when cardinality(found_kind.keys) = 1 then '$1::' || min(k.type)
      else string_agg(format('($1::jsonb->>%s)::%s', k.n - 1, k.type), ', ' order by k.n) end
  into columns, printed, position
  from unnest(found_kind.keys, found_kind.key_types) with ordinality as k(name, type, n);
  return query execute format(
    'select %1$s from %2$s t where octet_length(%1$s) between 1 and 1300 %3$s order by %4$s limit $2', printed, source,
    case when after is null then '' else format('and (%s) > (%s)', columns, position) end, columns)
    using after, most;
end
$$;
