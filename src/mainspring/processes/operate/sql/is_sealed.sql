-- Whether a process was started by an application with a cipher. Rides the primary key.
select start ? '$' from mainspring.process where id = %(id)s::uuid
