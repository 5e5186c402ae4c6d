-- One part of an id's text i.id as a value of its type: the id itself, or a member of its JSON array.
create or replace function mainspring.key_part(n bigint, type text, parts integer) returns text
  language sql immutable
  set search_path = pg_catalog, pg_temp
  as $$
    select case when parts = 1 then format('i.id::%s', type) else format('(i.id::jsonb->>%s)::%s', n - 1, type) end
  $$;

-- Whether equal values of these key columns have one text each.
create or replace function mainspring.prints_equals_alike(relation oid, names text[], types text[]) returns boolean
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select coalesce(bool_and(
      t.typtype = 'e' or (t.typnamespace = 'pg_catalog'::regnamespace and coalesce(c.collisdeterministic, true)
        and (t.typname in ('int2', 'int4', 'int8', 'oid', 'bool', 'uuid', 'text', 'varchar', 'bpchar', 'name', 'bytea', 'date', 'time',
            'timestamp', 'timestamptz', 'inet', 'cidr', 'macaddr')
          or (t.typname = 'numeric' and a.atttypmod >= 0)))), true)
    from unnest(names) k(name)
    join pg_attribute a on a.attrelid = relation and a.attname = k.name and not a.attisdropped
    join pg_type t on t.oid = a.atttypid
    left join pg_collation c on c.oid = a.attcollation
  $$;

-- What a kind's key is made of. For whoever may offer its entities without reading our tables.
create or replace function mainspring.key_of(kind text) returns table (types text[], names text[], source text)
  language sql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select k.key_types, k.keys, k.source from mainspring.kind k where k.name = key_of.kind
  $$;

-- Ids of a kind as their one canonical text: through the types of its key, printed under fixed settings (S25). A value that the
-- type refuses raises the type's own error; null and empty answers are for the caller to refuse. Rows are numbered as given.
-- Runs with the caller's rights: a domain's check, a cast, an index's expression are code of their owners.
-- Where equal values may be written differently (1.0 and 1.00, 'a' and 'A' in citext) the entity's own row says how, if there is one.
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
  names text[];
  relation regclass;
begin
  select k.types, k.names, to_regclass(nullif(nullif(k.source, 'document'), 'dao'))
    into types, names, relation from mainspring.key_of(canonical_keys.kind) k;
  if not found then
    raise exception 'unknown kind %', quote_literal(kind) using
      errcode = 'undefined_object', hint = 'kinds are registered by a worker or by "mainspring migrate module:app"';
  end if;
  if relation is not null and not mainspring.prints_equals_alike(relation, names, types) then
    begin
      return query execute format(
        'select i.n, coalesce((select %s from %s t where %s limit 1), %s) from unnest($1) with ordinality as i(id, n)',
        mainspring.key_expression(relation, names, 't'), relation,
        (select string_agg(format('t.%I = %s', k.name, mainspring.key_part(k.n, k.type, cardinality(types))), ' and ')
          from unnest(names, types) with ordinality as k(name, type, n)),
        (select case when cardinality(types) = 1 then string_agg(p.part || '::text', '')
            else 'jsonb_build_array(' || string_agg(p.part || '::text', ', ' order by p.n) || ')::text' end
          from (select k.n, mainspring.key_part(k.n, k.type, cardinality(types)) as part
            from unnest(types) with ordinality as k(type, n)) p)) using ids;
      return;
    exception
      when insufficient_privilege then null;  -- who may not read the table gets what the type says
    end;
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
