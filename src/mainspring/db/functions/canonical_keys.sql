-- Ids of a kind as their one canonical text: through the types of its key, printed under fixed settings (S25). A value that the
-- type refuses raises the type's own error; null and empty answers are for the caller to refuse. Rows are numbered as given.
create or replace function mainspring.canonical_keys(kind text, ids text[]) returns table (n bigint, key text)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres'
  set bytea_output = 'hex'
  set extra_float_digits = 1
  as $$
declare
  types text[];
begin
  select k.key_types into types from mainspring.kind k where k.name = canonical_keys.kind;
  if not found then
    raise exception 'unknown kind %', quote_literal(kind) using
      errcode = 'undefined_object', hint = 'kinds are registered by a worker or by "mainspring migrate module:app"';
  end if;
  if cardinality(types) = 0 then
    return query select i.n, i.id from unnest(ids) with ordinality as i(id, n);
  elsif cardinality(types) = 1 then
    return query execute format(
      'select i.n, i.id::%s::text from unnest($1) with ordinality as i(id, n)', types[1]) using ids;
  else
    return query execute format(
      'select i.n, jsonb_build_array(%s)::text from unnest($1) with ordinality as i(id, n)',
      (select string_agg(format('(i.id::jsonb->>%s)::%s::text', t.n - 1, t.type), ', ' order by t.n)
        from unnest(types) with ordinality as t(type, n))) using ids;
  end if;
end
$$;
