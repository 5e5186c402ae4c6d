-- With which keys the tasks of open processes are encrypted: their arguments, their results, and signals that nobody has
-- taken. Locks nothing; looks at so many tasks: for `mainspring check`, which somebody waits for.
with looked_at as (
  select t.process_id, t.actor, t.args, t.result
  from mainspring.process p
  join mainspring.task t on t.process_id = p.id and t.state <> 'superseded'
  where p.state = 'open'
  limit %(most)s::integer
),
sealed as (
  select actor, args -> '$' ->> 'key' as key from looked_at where args ? '$'
  union all
  select actor, result -> '$' ->> 'key' from looked_at where result ? '$'
  union all
  select s.name, s.payload -> '$' ->> 'key'
  from mainspring.signal s
  join mainspring.process p on p.id = s.process_id and p.state = 'open'
  where s.taken_by is null and s.payload ? '$'
)
select actor, key, count(*)::integer as steps from sealed where key is not null group by 1, 2 order by 1, 2
