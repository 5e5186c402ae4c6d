-- Params by name, with who uses and produces them. Rides the primary keys.
select p.name, p.kind, coalesce(p.num::text, p.ver) as value, p.rewinds, p.changed_at, p.changed_by, p.why, p.ahead,
  array(select u.task from mainspring.uses u where u.param = p.name order by u.task limit 100) as consumers,
  array(select o.task from mainspring.produces o join mainspring.reactive_task t on t.task = o.task
    where o.param = p.name order by o.task limit 100) as producers
from mainspring.param p
where (%(name)s::text is null or p.name = %(name)s::text) and p.name > %(after)s::text
order by p.name
limit %(most)s::integer
