-- Lock a pool's row: one admission is decided at a time, and firings that are being written are there or wait. What it decides
-- on is read by a later statement: this one's snapshot may be older than its lock.
select from mainspring.reactive_pool where pool = %(pool)s::text for update
