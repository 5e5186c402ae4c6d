-- The partitions of a source that are known. Rides the primary key.
select partition from mainspring.source_offset where source = %(source)s::text
