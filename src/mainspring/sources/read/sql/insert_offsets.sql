-- Make partitions known, with where each is to begin. One that is known stays as it is.
insert into mainspring.source_offset (source, partition, start)
select %(source)s::text, i.partition, i.start from unnest(%(partitions)s::text[], %(starts)s::text[]) as i(partition, start)
order by i.partition
on conflict (source, partition) do nothing
