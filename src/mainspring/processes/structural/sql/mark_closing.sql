-- Ask decisions to leave a process alone; committed by itself before the exclusive lock is asked for, for else a
-- stream of shared locks would let it wait without end. Answers the mark, by which it can be taken back.
update mainspring.process
set closing_at = mainspring.now()
where id = %(id)s::uuid
returning closing_at
