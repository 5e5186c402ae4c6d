-- An entity as it is now, by its canonical key: its row, or a document's body. Null: there is none, or the kind has a dao.
create or replace function mainspring.entity(kind text, key text) returns jsonb
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
declare
  found_kind mainspring.kind;
  source regclass;
  wanted text;
  answer jsonb;
begin
  select * into found_kind from mainspring.kind k where k.name = entity.kind;
  if found_kind.source is null or found_kind.source = 'dao' then
    return null;
  end if;
  if found_kind.source = 'document' then
    return (select d.body from mainspring.document d where d.kind = entity.kind and d.key = entity.key);
  end if;
  source := to_regclass(found_kind.source);
  if source is null then
    return null;
  end if;
  select string_agg(
    case when cardinality(found_kind.keys) = 1 then format('t.%I = $1::%s', k.name, k.type)
      else format('t.%I = ($1::jsonb->>%s)::%s', k.name, k.n - 1, k.type) end, ' and ')
  into wanted
  from unnest(found_kind.keys, found_kind.key_types) with ordinality as k(name, type, n);
  execute format('select to_jsonb(t.*) from %s t where %s', source, wanted) into answer using key;
  return answer;
end
$$;
