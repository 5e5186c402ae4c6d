-- The engine's time.
select mainspring.now() as now
