-- A structural change came to nothing, and its transaction was rolled back: decisions may come at once. Only where the
-- mark is still its own: that of another change stays. Rides the primary key.
update mainspring.process
set closing_at = null
where id = %(id)s::uuid and closing_at = %(closing_at)s::timestamptz
