-- How many processes fit: the conditions of search_processes.sql.
select count(*)
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
    or exists (select from mainspring.task t where t.process_id = p.id and t.actor = %(actor)s::text)
  )
