-- Make params that are not there yet; one that is stays as it is. Answers the kind that each has, so that the caller can
-- see a contradiction. Locks nothing that is there. Rides the primary key.
with item as (
  select name, kind
  from unnest(%(names)s::text[], %(kinds)s::text[]) as i(name, kind)
  order by name
),
made as (
  insert into mainspring.param (name, kind)
  select name, kind from item
  where not exists (select from mainspring.param p where p.name = item.name)
  on conflict (name) do nothing
  returning name, kind
)
select name, kind from made
union all
select p.name, p.kind from item i join mainspring.param p on p.name = i.name
