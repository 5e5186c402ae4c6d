-- The index of some tasks, as their triggers now say: which params they use and produce. Rides the two indexes of each table.
with use as (
  select i.task, i.param from unnest(%(use_tasks)s::text[], %(use_params)s::text[]) as i(task, param)
),
make as (
  select i.task, i.param from unnest(%(make_tasks)s::text[], %(make_params)s::text[]) as i(task, param)
),
unused as (
  delete from mainspring.uses u
  where u.task = any(%(tasks)s::text[]) and (u.task, u.param) not in (select task, param from use)
),
unmade as (
  delete from mainspring.produces p
  where p.task = any(%(tasks)s::text[]) and (p.task, p.param) not in (select task, param from make)
),
used as (
  insert into mainspring.uses (task, param) select task, param from use order by param, task on conflict do nothing
)
insert into mainspring.produces (task, param) select task, param from make order by param, task on conflict do nothing
