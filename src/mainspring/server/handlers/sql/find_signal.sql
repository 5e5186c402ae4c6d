-- Whether a signal was stored. Rides the primary key.
select 1 as found from mainspring.signal
where process_id = %(process_id)s::uuid and name = %(name)s::text and id = %(id)s::text
