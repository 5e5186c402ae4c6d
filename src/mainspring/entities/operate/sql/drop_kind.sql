-- Forget a kind: its states, visits of all queues, deliveries, events, catalogue. Its entities stay. States before visits,
-- visits before deliveries, as everywhere. Answers how many visits went.
with states as (
  delete from mainspring.state where kind = %(kind)s::text
),
visits as (
  delete from mainspring.visit
  where queue in (%(kind)s::text, %(kind)s::text || '~') or starts_with(queue, %(kind)s::text || '/')
    or starts_with(queue, %(kind)s::text || '!')
  returning 1
),
deliveries as (
  delete from mainspring.delivery where kind = %(kind)s::text
),
events as (
  delete from mainspring.event where kind = %(kind)s::text
),
registered as (
  delete from mainspring.captured where kind = %(kind)s::text
),
entries as (
  delete from mainspring.kind where name = %(kind)s::text
)
select count(*) as visits from visits
