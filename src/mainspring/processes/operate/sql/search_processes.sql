-- Processes, newest first, a page from a position on. Fixed optional conditions: planned anew for each question, those
-- that are null fall away. A user's id is looked up type by type. Rides process_search, process_attrs, process_one_per_key, the primary key or
-- process_created; conditions on tasks ride parked_task_group and task_actor. Who knows the few that can be meant names
-- them (`among`). Locks nothing.
select p.id::text, p.type, p.key, p.state::text, p.attrs::text, p.created_at, p.ended_at, p.generation,
  p.inconsistent, (select count(*) from mainspring.parked_task k where k.process_id = p.id) as parked,
  p.state = 'open' and p.cancelling_at is not null as cancelling
from mainspring.process p
where (%(type)s::text is null or p.type = %(type)s::text)
  and (%(state)s::text is null or p.state = %(state)s::mainspring.process_state)
  and (
    %(id)s::text is null
    or p.id = any (array(
      with recursive types as (
        (select type from mainspring.process order by type limit 1)
        union all
        select (select n.type from mainspring.process n where n.type > t.type order by n.type limit 1)
        from types t where t.type is not null
      )
      select q.id from types t join mainspring.process q on q.type = t.type and q.key = %(id)s::text
      union
      select %(uuid)s::uuid
    ))
  )
  and (%(among)s::text is null or p.id = any (%(among)s::text::uuid[]))
  and (%(since)s::timestamptz is null or p.created_at >= %(since)s::timestamptz)
  and (%(until)s::timestamptz is null or p.created_at < %(until)s::timestamptz)
  and (%(attrs)s::text is null or p.attrs @> %(attrs)s::text::jsonb)
  and (not %(inconsistent)s::boolean or p.inconsistent_at is not null)
  and (
    not %(parked)s::boolean
    or p.id = any (array(
      select k.process_id from mainspring.parked_task k
      where (%(type)s::text is null or k.type = %(type)s::text)
        and (%(actor)s::text is null or k.actor = %(actor)s::text)
        and (%(fingerprint)s::text is null or k.fingerprint = %(fingerprint)s::text)
        and (%(error)s::text is null or position(lower(%(error)s::text) in lower(k.error)) > 0
          or k.error_type = %(error)s::text)
    ))
  )
  and (
    %(actor)s::text is null or %(parked)s::boolean
    -- Asked of each process in turn, newest first: as a join it would read all tasks of the actor for a page.
    or (select true from mainspring.task t where t.process_id = p.id and t.actor = %(actor)s::text limit 1)
  )
  and (
    %(before_at)s::timestamptz is null
    or (p.created_at, p.id) < (%(before_at)s::timestamptz, %(before_id)s::uuid)
  )
order by p.created_at desc, p.id desc
limit %(limit)s::integer
