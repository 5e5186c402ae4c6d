-- Forget a kind: its states, visits of all queues, deliveries, events, catalogue. Its entities stay. States before visits,
-- visits before deliveries, as everywhere. Answers how many visits went.
with states as (
  delete from mainspring.state where kind = %(kind)s::text
),
visits as materialized (
  select mainspring.clear_queues(array[%(kind)s::text, %(kind)s::text || '~'], array[%(kind)s::text || '/', %(kind)s::text || '!']) as n
),
deliveries as (
  delete from mainspring.delivery where kind = %(kind)s::text
),
events as (
  delete from mainspring.event where kind = %(kind)s::text
),
kept as (
  delete from mainspring.event_kept where kind = %(kind)s::text
),
registered as (
  delete from mainspring.captured where kind = %(kind)s::text
),
entries as (
  delete from mainspring.kind where name = %(kind)s::text
)
select n as visits from visits
