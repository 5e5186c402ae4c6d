-- Fields of queues that are hidden from now on. What is hidden already stays so: code of before, which runs beside the new one while
-- it is rolled out, shows nothing again. In the order of names, for several workers may start at once. Notes of progress that were
-- said before go: whose they are, and what they quote, is not known any more.
with hiding as (
  insert into mainspring.redaction as r (queue, fields, result, changed_at)
  select i.queue, i.fields, i.result, mainspring.now()
  from json_to_recordset(%(rules)s::text::json) as i(queue text, fields text[], result boolean)
  order by i.queue
  on conflict (queue) do update
  set fields = array(select distinct f from unnest(r.fields || excluded.fields) f order by f), result = r.result or excluded.result,
    changed_at = mainspring.now()
  where not (r.fields @> excluded.fields) or (excluded.result and not r.result)
  returning r.queue
)
update mainspring.progress set note = null
where note is not null and exists (select from hiding)
