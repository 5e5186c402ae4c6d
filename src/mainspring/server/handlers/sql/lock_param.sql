-- The revision of a param that is about to be moved back; its row is locked until the end of the transaction. Rides the primary key.
select p.revision from mainspring.param p where p.name = %(name)s::text for no key update
