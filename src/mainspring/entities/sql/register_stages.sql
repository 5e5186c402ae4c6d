-- Enter the stages of a kind in its catalogue; one that is new (or was retired) raises the kind's generation.
-- What the code no longer has stays: other workers may have it, and its visits wait. Answers the stages that are new.
-- Locks the kind's row first. If there are entities already, a crawl is planned that asks the new stages about each.
with kind as materialized (
  select name, generation from mainspring.kind where name = %(kind)s::text for no key update
),
item as (
  select i.name, i.interest, i.sees_own, i.was, i.declared
  from jsonb_to_recordset(%(stages)s::text::jsonb)
    as i(name text, interest text[], sees_own boolean, was text[], declared jsonb)
),
fresh as materialized (
  select i.name
  from item i, kind k
  where not exists (
    select from mainspring.stage s where s.kind = k.name and s.name = i.name and s.retired_at is null)
),
raised as (
  update mainspring.kind k
  set generation = k.generation + 1, changed_at = now()
  from kind
  where k.name = kind.name and exists (select from fresh)
),
entered as (
  insert into mainspring.stage as s (kind, name, interest, sees_own, was, since, declared)
  select k.name, i.name, i.interest, i.sees_own, i.was, k.generation + 1, i.declared
  from item i, kind k
  on conflict (kind, name) do update
  set interest = excluded.interest, sees_own = excluded.sees_own, was = excluded.was, declared = excluded.declared,
    since = case when s.retired_at is null then s.since else excluded.since end, retired_at = null
  where (s.interest, s.sees_own, s.was, s.declared) is distinct from
      (excluded.interest, excluded.sees_own, excluded.was, excluded.declared)
    or s.retired_at is not null
),
planned as materialized (
  select mainspring.crawl_soon(k.name, array(select name from fresh)) from kind k where exists (select from fresh)
)
select name, (select count(*) from planned) as planned from fresh order by name
