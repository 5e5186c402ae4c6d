-- A process that stops in order carries its release no more.
delete from mainspring.reactive_instance where id = %(id)s::uuid
