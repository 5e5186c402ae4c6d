-- Capture of changes to managed documents: as for a user's table, but each row names its kind, and its fields are the members of
-- its body. One set of triggers for all kinds. Nested loops are off: a plan kept from one row would be quadratic for many.

-- The members '"f:name": 1' of what differs between two JSON objects; null: nothing does.
create or replace function mainspring.body_diff(old_body jsonb, new_body jsonb) returns jsonb
  language sql immutable
  set search_path = pg_catalog, pg_temp
  as $$
    select jsonb_object_agg('f:' || key, 1)
    from jsonb_each_text(old_body) o full join jsonb_each_text(new_body) n using (key)
    where o.value is distinct from n.value or (old_body ? key) <> (new_body ? key)
  $$;

create or replace function mainspring.capture_document() returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp
  set enable_nestloop = off
  set jit = off
  as $$
declare
  lane constant boolean := coalesce(current_setting('mainspring.lane', true), '') = 'crawl';
  item record;
begin
  if tg_relid <> 'mainspring.document'::regclass then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, 'document');
    return null;
  end if;
  if tg_op = 'INSERT' then
    for item in
      select n.kind, array_agg(n.key) as keys, array_agg(jsonb_build_object('new', 1, 'out', 1, 'v', n.version)) as payloads
      from new_rows n group by n.kind order by n.kind
    loop
      perform mainspring.offer_documents(item.kind, item.keys, item.payloads, lane);
    end loop;
  elsif tg_op = 'UPDATE' then
    -- The engine updates documents of one kind in a statement; what it never does, a user's dao may do in its save.
    if mainspring.is_own_save((select n.kind from new_rows n limit 1)) then
      return null;
    end if;
    for item in
      select c.kind, array_agg(c.key) as keys, array_agg(c.payload || jsonb_build_object('out', 1, 'v', c.version)) as payloads
      from (
        select n.kind, n.key, n.version,
          case when o.key is null then '{"new": 1}' else mainspring.body_diff(o.body, n.body) end as payload
        from new_rows n left join old_rows o on o.kind = n.kind and o.key = n.key
      ) c where c.payload is not null group by c.kind order by c.kind
    loop
      perform mainspring.offer_documents(item.kind, item.keys, item.payloads, lane);
    end loop;
    for item in
      select o.kind, array_agg(o.key) as keys, array_agg(o.body) as bodies, array_agg(o.version) as versions from old_rows o
      where not exists (select from new_rows n where n.kind = o.kind and n.key = o.key) group by o.kind order by o.kind
    loop
      perform mainspring.end_entities(item.kind, item.keys, item.bodies, item.versions);
    end loop;
  else
    for item in
      select o.kind, array_agg(o.key) as keys, array_agg(o.body) as bodies, array_agg(o.version) as versions from old_rows o
      group by o.kind order by o.kind
    loop
      perform mainspring.end_entities(item.kind, item.keys, item.bodies, item.versions);
    end loop;
  end if;
  return null;
end
$$;

create or replace function mainspring.offer_documents(kind text, keys text[], payloads jsonb[], lane boolean) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  queue constant text := case when lane then kind || '~' else kind end;
begin
  if mainspring.offer_visits(queue, keys, payloads, case when lane then 2 else 5 end) > 0
    and coalesce((select k.notify from mainspring.kind k where k.name = offer_documents.kind), true)
  then
    perform mainspring.wake(queue, mainspring.now());
  end if;
end
$$;

-- Before a truncate: the entities of all document kinds end.
create or replace function mainspring.clear_documents() returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp
  as $$
declare
  item record;
begin
  if tg_relid <> 'mainspring.document'::regclass then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, 'document');
    return null;
  end if;
  for item in
    select d.kind, array_agg(d.key) as keys, array_agg(d.body) as bodies, array_agg(d.version) as versions
    from mainspring.document d group by d.kind order by d.kind
  loop
    perform mainspring.end_entities(item.kind, item.keys, item.bodies, item.versions);
  end loop;
  return null;
end
$$;

-- The version counts changes of the body.
create or replace function mainspring.bump_document() returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if old *<> new then
    new.version := old.version + 1;
    new.changed_at := mainspring.now();
  end if;
  return new;
end
$$;

do $$
begin
  if not exists (select from pg_trigger where tgrelid = 'mainspring.document'::regclass and tgname = 'document_bump') then
    create trigger document_bump before update on mainspring.document
      for each row execute function mainspring.bump_document();
    create trigger document_insert after insert on mainspring.document referencing new table as new_rows
      for each statement execute function mainspring.capture_document();
    create trigger document_update after update on mainspring.document referencing old table as old_rows new table as new_rows
      for each statement execute function mainspring.capture_document();
    create trigger document_delete after delete on mainspring.document referencing old table as old_rows
      for each statement execute function mainspring.capture_document();
    create trigger document_clear before truncate on mainspring.document
      for each statement execute function mainspring.clear_documents();
  end if;
end
$$;
